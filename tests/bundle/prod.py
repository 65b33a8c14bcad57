"""Prod's resolved resources, and its schema as the SQL of alerts writes it."""

from tools.bundle.resolve import resolve
from tools.bundle.sources import ROOT, read_sources

RESOURCES = resolve(read_sources(ROOT), "prod").resources
ALERTS = RESOURCES["alerts"]
SCHEMA = "`{catalog_name}`.`{name}`.".format(**RESOURCES["schemas"]["sessions"])
