"""The dashboards of recipes/fleet: what they ask is asked of DuckDB. Grafana's own models read the file where scripts/get/engines has brought
them, and Superset imports its bundle where the environment of $DEVTRACE_SUPERSET has it."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import duckdb
import pytest
import yaml
from conftest import TOP
from fleet_tables import fleet_tables
from test_queries import ENGINES
from test_tables import report

GRAFANA = TOP / "recipes/fleet/grafana.json"
SUPERSET = TOP / "recipes/fleet/superset"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboards")
    assert report(TOP / "tests/data/private_gpt.jsonl", TOP / "tests/data/petals.jsonl", "--format", "parquet", "-o", folder / "db").returncode == 0
    fleet_tables(folder / "db", 12, 5)
    connection = duckdb.connect(str(folder / "fleet.duckdb"))
    connection.execute("SET file_search_path = ?", [str(folder / "db")])
    connection.execute((TOP / "recipes/queries.sql").read_text().replace("VIEW all_", "TABLE all_"))
    connection.close()
    return folder / "fleet.duckdb"


def test_grafanas_panels_ask_what_the_views_have(database):
    board = json.loads(GRAFANA.read_text())
    connection = duckdb.connect(str(database), read_only=True)
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
        (target,) = panel["targets"]
        cursor = connection.execute(target["rawSql"].replace("$__timeFilter(date)", "date > '2000-01-01'").replace("$__timeFilter(f.date)", "f.date > '2000-01-01'"))
        names, rows = [column[0] for column in cursor.description], cursor.fetchall()
        if panel["type"] == "timeseries":
            assert names == ["time", "metric", "value"] and all(row[2] > 0 for row in rows)
        assert panel["type"] != "stat" or len(rows) == 1
        assert rows or panel["title"] in ("Slowest ranks", "Traffic between devices by night", "What moves most"), panel["title"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


READ = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
print(JSONEncoder().encode(Dashboard.from_json(json.load(open(sys.argv[1])))))
"""


@pytest.mark.slow
@pytest.mark.skipif(not ENGINES.exists(), reason="no models of Grafana's: scripts/get/engines")
def test_grafanas_models_know_the_file():
    done = subprocess.run([ENGINES, "-c", READ, GRAFANA], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    said, written = json.loads(done.stdout), json.loads(GRAFANA.read_text())
    for key in ("uid", "title", "description", "tags", "schemaVersion", "editable", "time"):
        assert said[key] == written[key]
    for one, other in zip(said["panels"], written["panels"], strict=True):
        for key in ("id", "type", "title", "gridPos", "datasource", "options"):
            assert one[key] == other[key]


def bundle():
    return {str(file.relative_to(SUPERSET)): yaml.safe_load(file.read_text()) for file in sorted(SUPERSET.rglob("*.yaml"))}


def test_supersets_datasets_are_the_views(database):
    parts = bundle()
    connection = duckdb.connect(str(database), read_only=True)
    datasets = {part["uuid"]: part for name, part in parts.items() if name.startswith("datasets/")}
    charts = {part["uuid"]: part for name, part in parts.items() if name.startswith("charts/")}
    for part in datasets.values():
        types = dict(connection.execute(f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{part['table_name']}'").fetchall())
        assert {column["column_name"]: column["type"] for column in part["columns"]} == types
        for metric in part["metrics"]:
            connection.execute(f"SELECT {metric['expression']} FROM {part['table_name']}")
        assert part["database_uuid"] == parts["databases/devtrace.yaml"]["uuid"]
    shown = {cell["meta"]["uuid"] for cell in parts["dashboards/fleet.yaml"]["position"].values() if isinstance(cell, dict) and cell["type"] == "CHART"}
    assert shown == set(charts) and {chart["dataset_uuid"] for chart in charts.values()} == set(datasets)


SERVER = Path(os.environ.get("DEVTRACE_SUPERSET", "none")) / "bin/python"
# What version 6.1 forgets to ask for stands behind it.
SERVERS_PACKAGES = "apache-superset==6.1.0 duckdb-engine==0.17.0 flask-caching==2.3.1 rich cachetools"
# What the charts ask, as Superset makes it of the bundle, and answers.
IN_SUPERSET = """
import json, sys
from superset.app import create_app
app = create_app()
with app.app_context():
    from superset import db
    from superset.models.dashboard import Dashboard
    (board,) = db.session.query(Dashboard).filter_by(slug="devtrace-fleet").all()
    for chart in board.slices:
        data = chart.table
        frame = data.database.get_df(f"SELECT count(*) AS rows FROM {data.table_name}")
        print("CHART", json.dumps([chart.slice_name, chart.viz_type, data.table_name, int(frame["rows"][0])]))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not SERVER.exists(), reason="no Superset: DEVTRACE_SUPERSET names an environment with " + SERVERS_PACKAGES)
def test_superset_imports_the_bundle(database, tmp_path):
    with zipfile.ZipFile(tmp_path / "fleet.zip", "w") as archive:
        for file in sorted(SUPERSET.rglob("*.yaml")):
            archive.write(file, Path("fleet") / file.relative_to(SUPERSET))
    simple = '{"CACHE_TYPE": "SimpleCache"}'
    settings = ("SECRET_KEY = 'of a test'", "PREVENT_UNSAFE_DB_CONNECTIONS = False", f"FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {simple}")
    (tmp_path / "superset_config.py").write_text("\n".join(settings))
    env = {**os.environ, "SUPERSET_CONFIG_PATH": str(tmp_path / "superset_config.py"), "SUPERSET_HOME": str(tmp_path / "home"), "FLASK_APP": "superset"}
    command = SERVER.with_name("superset")
    run = lambda *words: subprocess.run(words, env=env, cwd=database.parent, capture_output=True, text=True, timeout=500)
    for words in (("db", "upgrade"), ("fab", "create-admin", "--username", "admin", "--firstname", "a", "--lastname", "b", "--email", "a@b.invalid", "--password", "admin"), ("init",),
                  ("import-dashboards", "-p", tmp_path / "fleet.zip", "-u", "admin")):
        done = run(command, *words)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    done = run(SERVER, "-c", IN_SUPERSET)
    assert done.returncode == 0, done.stderr[-3000:]
    charts = [json.loads(line.removeprefix("CHART ")) for line in done.stdout.splitlines() if line.startswith("CHART ")]
    assert {name for name, *_ in charts} == {part["slice_name"] for name, part in bundle().items() if name.startswith("charts/")}
    assert all(rows > 0 for *_, table, rows in charts if table != "traffic_by_site")
