"""Prod's resolved resources, and its schema as the SQL of alerts writes it."""

from tools.bundle.target import read_target

RESOURCES = read_target("prod")["resources"]
ALERTS = RESOURCES["alerts"]
SCHEMA = "`{catalog_name}`.`{name}`.".format(**RESOURCES["schemas"]["sessions"])
