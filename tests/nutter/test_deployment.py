# Databricks notebook source
# MAGIC %md
# MAGIC Tests of a deployment: the job's tables and views exist and match this version, and their reader cannot write
# MAGIC them. The job `sessionize` must have run once.

# COMMAND ----------

from sessionization.command_line.widgets import make_job_run_id_widget, make_widgets
from sessionization.notebook.trial_stream import TrialSettings

make_widgets(TrialSettings, dbutils.widgets)
make_job_run_id_widget(dbutils.widgets)

# COMMAND ----------

# MAGIC %run ./proof

# COMMAND ----------

from sessionization.command_line.widgets import read_widgets
from sessionization.notebook.notebook_tables import use_tables
from sessionization.notebook.trial_stream import TrialSettings, may_read, write_privileges
from sessionization.spark.tables.location import OWNER_PROPERTY
from sessionization.spark.tables.schemas import TABLES
from sessionization.spark.tables.views import VIEWS

# COMMAND ----------


class DeploymentFixture(NutterFixture):
    def before_all(self):
        self.settings = read_widgets(TrialSettings, dbutils.widgets)
        self.location = self.settings.deployed

    def run_1_tables_exist(self):
        self.missing = [table.name for table in TABLES if not self.location.exists(spark, table)]

    def assertion_1_tables_exist(self):
        assert self.missing == []

    def run_2_tables_match(self):
        self.found = {table.name: self.location.read(spark.read, table).schema for table in TABLES}
        self.owners = {self.location.properties(spark, table).get(OWNER_PROPERTY) for table in TABLES}

    def assertion_2_tables_match(self):
        for table in TABLES:
            found = [(field.name, field.dataType) for field in self.found[table.name]]
            assert found == [(field.name, field.dataType) for field in table.schema], table.name
        assert len(self.owners) == 1, f"the tables belong to several checkpoints: {self.owners}"

    def run_3_views_answer(self):
        use_tables(spark, self.settings)
        self.answers = {view: spark.sql(f"SELECT * FROM {view} LIMIT 1").columns for view in VIEWS}

    def assertion_3_views_answer(self):
        assert all(self.answers.values())
        assert len(self.answers) == len(VIEWS)

    def run_4_permissions(self):
        self.reader = self.settings.reader or ""
        self.can_read = may_read(spark, self.location, self.reader)
        self.write_privileges = write_privileges(spark, self.location, self.reader)

    def assertion_4_permissions(self):
        assert self.can_read, f"{self.reader} may not read {self.location}"
        assert self.write_privileges == [], f"{self.reader} may {', '.join(self.write_privileges)} in {self.location}"


# COMMAND ----------

report(DeploymentFixture())
