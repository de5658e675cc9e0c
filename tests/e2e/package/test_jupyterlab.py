"""The report under its cell in a real JupyterLab, in a real headless browser."""

from conftest import DEVTRACE, environment
from jupyterlab import ENCODER, jupyterlab, run_all, wait
from notebooks import PACKAGE, kernel_spec
from pages import browser  # noqa: F401


def test_the_report_in_jupyterlab(browser, tmp_path):  # noqa: F811
    kernel_spec(tmp_path, [DEVTRACE, "rehearse", "--gpus", "2", "--no-trace", "--"])
    with jupyterlab(tmp_path, {"fault": ENCODER}, "tested", environment(None, PACKAGE)) as addresses:
        run_all(browser, addresses["fault"])
        shown = wait(browser, "return document.querySelector('.devtrace')?.innerText")
        assert shown.startswith("devtrace: Cell In[3], line 2\n") and "at Encoder.forward (Cell In[2], line 7)" in shown, shown
        assert "fix Cell In[3], line 2 (repairs the cause)" in shown
        # It stands under the third cell, above the traceback.
        outputs = wait(browser, """
            const third = document.querySelectorAll('.jp-Notebook .jp-CodeCell')[2], all = [...third.querySelectorAll('.jp-OutputArea-output')];
            return all.length >= 2 && all.map(each => each.innerText.slice(0, 8))""")
        assert outputs == ["devtrace", "--------"], outputs
        assert browser.execute_script("const it = document.querySelector('.devtrace'); return it.scrollWidth <= it.clientWidth"), "nothing is cut off"
        # The button, and what it gives.
        assert browser.execute_script("const button = document.querySelector('.devtrace button'); button.click(); return button.textContent") == "copied"
        repaired = browser.execute_script("return document.querySelector('.devtrace details pre').textContent")
        assert repaired == ENCODER[2].replace("model(ids)", "model(ids.to(next(model.parameters()).device))")
