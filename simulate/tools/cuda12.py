#!/usr/bin/env python3
"""What the stub libraries for CUDA 12 are built from: the headers of the nvidia-*-cu12 wheels and the names that their libraries export.

Taken out of an installation (--site: its site-packages/nvidia), or out of the wheels themselves, which pip downloads one after the
other (1.3 GB, of which 10 MB are kept).
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from stub_library import exported  # noqa: E402

# folder in site-packages/nvidia, library, wheel; the versions are those that PyTorch 2.8 asks for.
WHEELS = [
    ("cuda_runtime", "libcudart.so.12", "nvidia-cuda-runtime-cu12==12.8.90"),
    ("cuda_cupti", "libcupti.so.12", "nvidia-cuda-cupti-cu12==12.8.90"),
    ("cufft", "libcufft.so.11", "nvidia-cufft-cu12==11.3.3.83"),
    ("cusolver", "libcusolver.so.11", "nvidia-cusolver-cu12==11.7.3.90"),
    ("cusparse", "libcusparse.so.12", "nvidia-cusparse-cu12==12.5.8.93"),
    ("cublas", "libcublas.so.12", "nvidia-cublas-cu12==12.8.4.1"),
    ("cublas", "libcublasLt.so.12", "nvidia-cublas-cu12==12.8.4.1"),
]


def keep(root, folder, library, out):
    """Headers (but not cuda.h: the driver is the same for both versions, and so is its header) and the list of one library."""
    shutil.copytree(root / folder / "include", out / "include", dirs_exist_ok=True, ignore=shutil.ignore_patterns("cuda.h", "__*"))
    symbols = exported(root / folder / "lib" / library)
    (out / f"{library}.symbols").write_text("".join(f"{name} {version}\n" for name, version in sorted(symbols.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=pathlib.Path, help="site-packages/nvidia of a Python with a CUDA 12 PyTorch")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    if options.site:
        for folder, library, _ in WHEELS:
            keep(options.site, folder, library, options.out)
        return
    for wheel in dict.fromkeys(wheel for _, _, wheel in WHEELS):
        print(f"simulate: reading {wheel}", flush=True)
        with tempfile.TemporaryDirectory(dir=options.out) as scratch:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps",
                            "--only-binary", ":all:", "--dest", scratch, wheel], check=True)
            with zipfile.ZipFile(next(pathlib.Path(scratch).glob("*.whl"))) as archive:
                archive.extractall(scratch)
            for folder, library, name in WHEELS:
                if name == wheel:
                    keep(pathlib.Path(scratch) / "nvidia", folder, library, options.out)


if __name__ == "__main__":
    main()
