"""Packs a folder: python3 pack.py FOLDER ARCHIVE.tar.xz

What other programs hold is no part of it: sockets, pipes and links are left out, and so is what disappears meanwhile.
"""
import io
import os
import pathlib
import sys
import tarfile

folder, archive = map(pathlib.Path, sys.argv[1:])
new = archive.with_name(f".{archive.name}.{os.getpid()}")
with tarfile.open(new, "w:xz", preset=4) as tar:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
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
