"""Why a test of another project fails, from what it says; for those that the same test without devtrace does not explain.

A row: what the message has in it (a regular expression), and the reason as the page says it. The first row that fits stands.
"""

import re

REASONS = (
    (r"NCCL between processes is not simulated", "it wants NCCL between processes, which a rehearsal refuses"),
    (r"huggingface\.co|LocalEntryNotFound|OfflineModeIsEnabled|Can't load (the configuration|tokenizer)|offline mode|couldn't connect to|Cannot (find|reach)",
     "it wants a model or data from the Hugging Face hub, and runs without a network"),
    (r"OutOfMemoryError.*Tried to allocate \d\d[.\d]* GiB", "it fills a device, and the host that runs the rehearsal has less memory than that"),
    (r"package must be available|No module named|requires the `?\w+`? library|ImportError", "it wants a package that is not there"),
    (r"Timeout(Expired| )|Failed: Timeout", "it took longer than the limit"),
    (r"fixture '\w+' not found", "it wants a fixture of a conftest.py that the sdist lacks"),
    (r"No such file or directory", "it wants a file that the sdist lacks"),
)  # fmt: skip
UNEXPLAINED = "not explained"


def reason(message: str) -> str:
    return next((why for pattern, why in REASONS if re.search(pattern, message)), UNEXPLAINED)
