"""Compresses the files of a wheel with zopfli, a thirtieth smaller than zlib's best: `wheel pack` takes zlib's default, and is not to be
told another. A minute."""

import os
import sys
import zipfile

import zopfli

(path,) = sys.argv[1:]
with zipfile.ZipFile(path) as packed, zopfli.ZipFile(f"{path}.new", "w", zipfile.ZIP_DEFLATED, iterations=1) as smaller:
    for entry in packed.infolist():
        smaller.writestr(entry, packed.read(entry))
os.replace(f"{path}.new", path)
