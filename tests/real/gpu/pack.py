"""Packs a folder: python3 pack.py FOLDER ARCHIVE.tar.xz

Left out are what `vsweep report` makes again (pictures and pages), what is no file, and what disappears meanwhile.
"""
import io
import os
import pathlib
import sys
import tarfile

MADE_AGAIN = {".png", ".svg", ".html", ".parquet"}

folder, archive = map(pathlib.Path, sys.argv[1:])
new = archive.with_name(f".{archive.name}.{os.getpid()}")
with tarfile.open(new, "w:xz", preset=2) as tar:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.suffix in MADE_AGAIN:
            continue
        try:
            info = tar.gettarinfo(path, arcname=str(path.relative_to(folder.parent)))
            with path.open("rb") as content:
                # A file that grows meanwhile is taken as long as it was.
                data = content.read(info.size)
        except OSError:
            continue
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
os.replace(new, archive)
