# Databricks notebook source
# MAGIC %md
# MAGIC Tests of a deployment: the job's tables and views exist and match this version, and their reader cannot write
# MAGIC them. The job `sessionize` must have run once.

# COMMAND ----------

# MAGIC %run ./proof

# COMMAND ----------

# MAGIC %run ./trial

# COMMAND ----------

from sessionization.command_line.widgets import make_job_run_id_widget, make_widgets

make_widgets(TrialSettings, dbutils.widgets)
make_job_run_id_widget(dbutils.widgets)

# COMMAND ----------

from sessionization.command_line.widgets import read_widgets
from sessionization.notebook.notebook_tables import use_tables
from sessionization.spark.tables.location import OWNER_PROPERTY, TableLocation
from sessionization.spark.tables.schemas import REQUIRED_TABLES, TABLES
from sessionization.spark.tables.view_sql import VIEWS

# COMMAND ----------


class DeploymentFixture(NutterFixture):
    def before_all(self):
        self.settings = read_widgets(TrialSettings, dbutils.widgets)
        self.location = TableLocation.of(self.settings.tables)

    def run_1_tables_exist(self):
        self.missing = [table.name for table in REQUIRED_TABLES if not self.location.exists(spark, table)]

    def assertion_1_tables_exist(self):
        assert self.missing == []

    def run_2_tables_match(self):
        # With `--archive off` there is no raw_events.
        self.tables = [table for table in TABLES if self.location.exists(spark, table)]
        self.found = {table.name: self.location.read(spark.read, table).schema for table in self.tables}
        self.owners = {self.location.properties(spark, table).get(OWNER_PROPERTY) for table in self.tables}

    def assertion_2_tables_match(self):
        id_type = self.location.session_id_type(spark)
        for table in self.tables:
            types = {field.name: field.dataType.simpleString() for field in self.found[table.name]}
            for column in table.columns:
                expected = id_type if column.name == "session_id" else column.type
                assert column.name in types, f"{table.name} has no {column.name}"
                # An event map adds columns, and fields to those that are internal.
                matches = column.name.startswith("_") or types[column.name] == expected
                assert matches, f"{table.name}.{column.name} is {types[column.name]}, not {expected}"
        assert len(self.owners) == 1, f"the tables belong to several checkpoints: {self.owners}"

    def run_3_views_answer(self):
        use_tables(spark, self.settings)
        self.answers = {view: spark.sql(f"SELECT * FROM {view} LIMIT 1").columns for view in VIEWS}

    def assertion_3_views_answer(self):
        assert all(self.answers.values())
        assert len(self.answers) == len(VIEWS)

    def run_4_permissions(self):
        self.granted = {"SELECT"}
        if self.location.catalog is not None:  # else the file system grants rights
            schema = f"`{self.location.catalog}`.`{self.location.schema}`"
            rows = spark.sql(f"SHOW GRANTS `{self.settings.reader}` ON SCHEMA {schema}").collect()
            self.granted = {row.ActionType.replace("_", " ") for row in rows}
        self.user = spark.sql("SELECT current_user()").first()[0]

    def assertion_4_permissions(self):
        assert "SELECT" in self.granted, f"{self.settings.reader} may not read {self.location}"
        if self.user != self.settings.reader:  # in the target `dev` one person runs the jobs and reads the tables
            more = self.granted - {"SELECT", "USE SCHEMA", "USE CATALOG", "BROWSE", "READ VOLUME"}
            assert not more, f"{self.settings.reader} may {', '.join(more)} in {self.location}"


# COMMAND ----------

report(DeploymentFixture())
