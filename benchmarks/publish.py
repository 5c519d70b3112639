"""Lay compact copies of the data sets out in their publishers' formats, for the loaders of `polyfm.datasets`.

python benchmarks/publish.py COMPACT_DIR DATA_HOME

MovieLens' timestamps become 0, Last.fm's list of artists has only ids, and IMDB's words are those of the compact copy,
not of the publisher's vocabulary. E2006-tfidf has no compact copy.
"""

import gzip
import shutil
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file


def main(compact: Path, home: Path) -> None:
    unpacked = {
        "abalone.libsvm.gz": "abalone",
        "cadata.libsvm.gz": "cadata",
        "cpusmall.libsvm.gz": "cpusmall",
        "a9a.gz": "a9a",
        "a9a.t.gz": "a9a.t",
        "hetrec2011-lastfm/user_taggedartists.dat.gz": "hetrec2011-lastfm-2k/user_taggedartists.dat",
        "imdb/vocab.txt.gz": "aclImdb/imdb.vocab",
    }
    for source, target in unpacked.items():
        (home / target).parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(compact / source) as packed, open(home / target, "wb") as file:
            shutil.copyfileobj(packed, file)

    artists = np.unique(np.load(compact / "hetrec2011-lastfm" / "artist_tag_counts.npz")["artist"])
    lines = ["id\tname\turl\tpictureURL", *(f"{artist}\t\t\t" for artist in artists), ""]
    (home / "hetrec2011-lastfm-2k" / "artists.dat").write_bytes("\r\n".join(lines).encode())

    ratings = np.load(compact / "ml-1m" / "ratings.npz")
    (home / "ml-1m").mkdir(exist_ok=True)
    table = np.column_stack([ratings["user"], ratings["movie"], ratings["rating"]])
    np.savetxt(home / "ml-1m" / "ratings.dat", table, fmt="%d::%d::%d::0")

    stars = np.load(compact / "imdb" / "ratings.npz")
    for part in ("train", "test"):
        counts = sp.load_npz(compact / "imdb" / f"{part}_counts.npz").astype(np.int64)
        (home / "aclImdb" / part).mkdir(exist_ok=True)
        target = home / "aclImdb" / part / "labeledBow.feat"
        dump_svmlight_file(counts, stars[f"y_{part}"].astype(np.int64), str(target), zero_based=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
