-- All days of the tables.
SELECT day FROM ${schema}.player_days
UNION SELECT first_day FROM ${schema}.player_first_days
UNION SELECT day FROM ${schema}.daily_activity
UNION SELECT cohort_day FROM ${schema}.retention
UNION SELECT day FROM ${schema}.session_findings
