"""What devtrace check's page says in the browser: what is new, known and gone, who saw it, and how to suppress it."""

from checked_logs import baseline, check, end, finding, log, process  # noqa: F401
from pages import browser, page  # noqa: F401


def test_the_page_says_what_is_new_known_and_gone(check, log, page, tmp_path):  # noqa: F811
    log(process(), finding(), finding(number=2, operation="aten::old"), end())
    baseline(check)
    log(process(), finding(), finding(number=3, operation="aten::fresh"), end())
    assert check("--baseline", "known.json", "--html", "h.html", "logs").returncode == 1
    page.open(tmp_path / "h.html")
    assert "Compared with a baseline: 1 new, 1 known, 1 gone" in page.text("#banners")
    rows = {row.text.split("\n")[0]: row.text.split("\n")[-1].split(" · ")[0] for row in page.all("#findings li")}
    assert {name.split(" ×")[0]: status for name, status in rows.items()} == {"aten::fresh": "new", "aten::index_select": "known", "aten::old": "gone"}
    assert page.all(".why .tag")[0].text == "new"
    facts = page.run("return Object.fromEntries([...document.querySelectorAll('dl.facts dt')].map((dt) => [dt.textContent, dt.nextElementSibling.textContent]))")
    assert facts["To suppress it"].strip().startswith("[") or "operation" in facts["To suppress it"]
    assert facts["Seen by"]
    page.find("#filter").send_keys("gone")
    assert [row.text.split("\n")[0] for row in page.all("#findings li")] == ["aten::old"]
