"""The site of the documentation: the pages that are taken from the code, and what links out of docs/ become."""
