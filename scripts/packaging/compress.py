"""Compresses the files of a wheel as well as zlib can: `wheel pack` takes zlib's default, and is not to be told another."""

import os
import sys
import zipfile

(path,) = sys.argv[1:]
with zipfile.ZipFile(path) as packed, zipfile.ZipFile(f"{path}.new", "w", zipfile.ZIP_DEFLATED) as smaller:
    for entry in packed.infolist():
        smaller.writestr(entry, packed.read(entry), compresslevel=9)
os.replace(f"{path}.new", path)
