-- Thousands of logs at once: `duckdb < queries.sql` in the folder above `logs`. All records of all logs are one table; what a record lacks
-- is NULL there.
--
-- the table
CREATE OR REPLACE VIEW records AS
SELECT * FROM read_json('logs/**/*.jsonl', format = 'newline_delimited', filename = true, union_by_name = true, ignore_errors = true,
                        maximum_object_size = 67108864, columns = {
  record: 'VARCHAR', pid: 'BIGINT', id: 'BIGINT', host: 'VARCHAR', kind: 'VARCHAR', severity: 'VARCHAR', fingerprint: 'VARCHAR',
  operation: 'VARCHAR', message: 'VARCHAR', count: 'BIGINT', "from": 'VARCHAR', "to": 'VARCHAR', bytes: 'BIGINT', copies: 'BIGINT',
  time: 'DOUBLE', environment: 'JSON', python: 'STRUCT(file VARCHAR, line BIGINT, "function" VARCHAR, project BOOLEAN)[]'});

-- which faults, by how many processes, how often
WITH counted AS (
  SELECT filename, pid, id, any_value(fingerprint) AS fingerprint, max(count) AS count
  FROM records WHERE record IN ('finding', 'count') GROUP BY filename, pid, id
), named AS (
  SELECT fingerprint, any_value(kind) AS kind, any_value(operation) AS operation FROM records WHERE record = 'finding' GROUP BY fingerprint
)
SELECT fingerprint, kind, operation, count(DISTINCT (filename, pid)) AS processes, sum(count)::BIGINT AS occurrences
FROM counted JOIN named USING (fingerprint)
GROUP BY ALL ORDER BY occurrences DESC;

-- what moves between devices, by call site
WITH latest AS (
  SELECT filename, pid, id, any_value("from") AS source, any_value("to") AS target, any_value(python[1]) AS frame, max(bytes) AS bytes,
         max(copies) AS copies
  FROM records WHERE record = 'traffic' GROUP BY filename, pid, id
)
SELECT source, target, frame.function AS site, frame.file AS file, sum(bytes)::BIGINT AS bytes, sum(copies)::BIGINT AS copies
FROM latest GROUP BY ALL ORDER BY bytes DESC LIMIT 20;

-- processes that did not end
SELECT any_value(host), pid FROM records
GROUP BY filename, pid HAVING bool_or(record = 'process') AND NOT bool_or(record = 'end') ORDER BY ALL;
