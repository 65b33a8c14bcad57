"""Checks of the bundle: mistakes that the CLI accepts, and that cost a studio its data, its money or its sleep."""
