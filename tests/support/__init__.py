"""Builders and drivers that tests of several folders share; a module here has no tests."""
