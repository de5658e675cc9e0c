-- Months of logs at once: `duckdb < queries.sql` in the folder that `devtrace report LOGS --format parquet -o FOLDER` writes. What the
-- columns mean: docs/reference/tables.md. Below the tables it is SQL that Spark understands as well (docs/guide/tables.md).
--
-- the tables, as DuckDB opens them; TABLE in the place of VIEW, in a database of its own, reads the files once for all that follows.
-- Where a later devtrace has added columns: union_by_name = true besides, which opens every file once more
CREATE OR REPLACE VIEW all_findings AS
SELECT * FROM read_parquet('findings/*/*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR});
CREATE OR REPLACE VIEW all_traffic AS
SELECT * FROM read_parquet('traffic/*/*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR});
CREATE OR REPLACE VIEW all_processes AS
SELECT * FROM read_parquet('processes/*/*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR});
CREATE OR REPLACE VIEW all_memory AS
SELECT * FROM read_parquet('memory/*/*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR});
CREATE OR REPLACE VIEW all_outgrown AS
SELECT * FROM read_parquet('outgrown/*/*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR});

-- the rows that hold: without those of logs that have grown since
CREATE OR REPLACE VIEW findings AS
SELECT * FROM all_findings a WHERE NOT EXISTS (SELECT 1 FROM all_outgrown o WHERE o.log = a.log AND o.log_bytes = a.log_bytes);
CREATE OR REPLACE VIEW traffic AS
SELECT * FROM all_traffic a WHERE NOT EXISTS (SELECT 1 FROM all_outgrown o WHERE o.log = a.log AND o.log_bytes = a.log_bytes);
CREATE OR REPLACE VIEW processes AS
SELECT * FROM all_processes a WHERE NOT EXISTS (SELECT 1 FROM all_outgrown o WHERE o.log = a.log AND o.log_bytes = a.log_bytes);
CREATE OR REPLACE VIEW memory AS
SELECT * FROM all_memory a WHERE NOT EXISTS (SELECT 1 FROM all_outgrown o WHERE o.log = a.log AND o.log_bytes = a.log_bytes);

-- which faults, by how many processes, how often, since when; notes are no faults
CREATE OR REPLACE VIEW faults AS
SELECT fingerprint, min(kind) AS kind, min(operation) AS operation, min(category) AS category, min(function) AS function,
       min(date) AS first_night, max(date) AS last_night, count(DISTINCT date) AS nights, count(DISTINCT host) AS hosts,
       count(*) AS processes, CAST(sum(count) AS BIGINT) AS occurrences
FROM findings WHERE coalesce(severity, 'error') <> 'note' AND NOT suppressed GROUP BY fingerprint;

-- faults by version and night
CREATE OR REPLACE VIEW faults_by_version AS
SELECT date, torch, fingerprint, min(kind) AS kind, min(operation) AS operation, count(DISTINCT host) AS hosts, count(*) AS processes,
       CAST(sum(count) AS BIGINT) AS occurrences
FROM findings WHERE coalesce(severity, 'error') <> 'note' AND NOT suppressed GROUP BY date, torch, fingerprint;

-- where a fault was seen first: the night, the version, the host, the log
CREATE OR REPLACE VIEW first_seen AS
SELECT fingerprint, date, torch, host, log, time FROM (
  SELECT fingerprint, date, torch, host, log, time, row_number() OVER (PARTITION BY fingerprint ORDER BY date, time, log) AS place
  FROM findings WHERE coalesce(severity, 'error') <> 'note' AND NOT suppressed) ranked
WHERE place = 1;

-- the nights on which a version was run
CREATE OR REPLACE VIEW nights AS
SELECT date, torch, count(*) AS processes FROM processes GROUP BY date, torch;

-- flaky faults: seen on some of the nights between the first and the last, under one version that was run on all of these
CREATE OR REPLACE VIEW flaky AS
SELECT s.fingerprint, s.torch, s.nights_seen, count(*) AS nights_run FROM (
  SELECT fingerprint, torch, min(date) AS first_night, max(date) AS last_night, count(DISTINCT date) AS nights_seen
  FROM findings WHERE coalesce(severity, 'error') <> 'note' AND NOT suppressed GROUP BY fingerprint, torch) s
JOIN nights n ON n.torch = s.torch AND n.date BETWEEN s.first_night AND s.last_night
GROUP BY s.fingerprint, s.torch, s.nights_seen HAVING count(*) > s.nights_seen;

-- what moves between devices, by call site, over time
CREATE OR REPLACE VIEW traffic_by_site AS
SELECT date, source, target, function, file, CAST(sum(bytes) AS BIGINT) AS bytes, CAST(sum(copies) AS BIGINT) AS copies,
       count(*) AS processes
FROM traffic GROUP BY date, source, target, function, file;

-- the slowest ranks: how long each rank of a job took, and how much longer than the job's fastest
CREATE OR REPLACE VIEW slow_ranks AS
SELECT date, job, rank, host, seconds, seconds - min(seconds) OVER (PARTITION BY date, job) AS behind
FROM processes WHERE rank IS NOT NULL AND job IS NOT NULL AND seconds IS NOT NULL;

-- devices' peaks of memory, by night
CREATE OR REPLACE VIEW peaks AS
SELECT date, host, device, max(peak) AS peak, max(reserved) AS reserved, count(*) AS processes
FROM memory WHERE record = 'memory' GROUP BY date, host, device;

-- processes that did not end
CREATE OR REPLACE VIEW unfinished AS
SELECT date, host, pid, log, path FROM processes WHERE ended IS NULL;
