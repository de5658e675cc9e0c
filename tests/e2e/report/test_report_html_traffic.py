"""What the page shows of the traffic between devices."""

import pytest
from pages import CONTRAST, browser, page  # noqa: F401 (fixtures)
from sample_pages import SIZES, TRAFFIC, moved, pages, traffic_page  # noqa: F401
from selenium.webdriver.common.by import By

# ---- traffic between devices -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("findings", [0, 1])
def test_traffic_is_a_matrix_and_a_list(page, tmp_path, findings):
    page.open(traffic_page(tmp_path, findings, TRAFFIC))
    assert "Traffic between devices" in [heading.text for heading in page.all("h2")]
    rows = [[cell.text.split("\n")[0] for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".matrix tr")]
    assert rows[0] == ["from \\ to", "cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:10"], "devices in the order of their numbers"
    assert rows[1] == ["cpu", "", "8.0 MiB", "–", "–", "–"], "of one call site the last record holds"
    assert rows[2] == ["cuda:0", "–", "", "4.0 GiB", "–", "–"]
    sites = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".sites tbody tr")]
    assert [site[0].split("\n")[0] for site in sites] == ["step (main.py:2)", "step (main.py:3)", "step (main.py:1)", "other call sites"]
    assert sites[0][6] == "PCIe 5.0 x16 twice, through the host" and sites[1][6] == "NVLink"
    assert "estimates" in page.text("main")


def test_what_one_line_moved_is_one_row_whatever_was_measured(page, tmp_path):
    """Several stacks of a library end in the same line of the user's: their bytes, copies and times add up."""
    same = [moved(n, "cuda:0", "cuda:1", n << 30, 1, staged=False, timed={"copies": 1, "bytes": n << 30, "nanoseconds": n * 10_000_000}) for n in (1, 2, 3)]
    for record in same:
        record["python"][0]["line"] = 7
    page.open(traffic_page(tmp_path, 1, [*same, moved(4, "cuda:0", "cuda:1", 1 << 30, 1, staged=False)]))
    sites = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th,td")] for row in page.all(".sites tbody tr")]
    assert [(site[0].split("\n")[0], site[3], site[4], site[6]) for site in sites] == [
        ("step (main.py:7)", "6.0 GiB", "3", "NVLink, measured: 107 GB/s"),
        ("step (main.py:4)", "1.0 GiB", "1", "NVLink"),
    ]


def test_no_traffic_is_no_table(page, pages):
    page.open(pages["private_gpt"])
    assert page.all(".matrix") == [] and "Traffic" not in page.text("main")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_traffic_is_readable_everywhere(page, tmp_path, size, theme):
    many = [moved(n, f"cuda:{n % 16}", f"cuda:{(n + 1 + n // 16) % 16}", n << 20, n, staged=n % 2 == 0) for n in range(1, 60)]
    page.open(traffic_page(tmp_path, 1, many), size, theme)
    assert page.run(CONTRAST) == []
    assert page.run("return document.documentElement.scrollWidth") <= size[0], "wide tables scroll by themselves"
    assert len(page.all(".sites tbody tr")) == 20 and "more call sites" in page.text("main")


def test_hostile_traffic_is_text(page, tmp_path):
    odd = [
        moved(1, "cpu", "cuda:0", 5, 1, function="</script><b onmouseover=alert(1)>\u202e\x1b[2J"),
        moved(2, "<i>", "cuda:0", "many", None),
        {"record": "traffic", "id": {}, "from": 5, "to": [], "bytes": -1, "python": 7},
        {"record": "traffic", "from": "cpu", "to": "cuda:1", "bytes": 1e300, "copies": -3, "native": [None]},
    ]
    page.open(traffic_page(tmp_path, 1, odd))
    assert page.all("main b[onmouseover], main i") == []
    assert "\\u001b[2J" in page.text(".sites")
