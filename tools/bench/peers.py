"""Train and time one peer on one data set; run by field.py with the interpreter that has the peers.

    python peers.py PEER TRAIN.npz TEST.npz FOLDER K SHARE

Data: CSR arrays (indptr, indices, values, label_indptr, label_indices, shape). FOLDER keeps the peer's model. The time
of training begins when the peer's modules are imported and, for omikuji, its text file is written; reading the arrays
is part of it, and what loading the model afterwards takes is taken off. The least of up to 12 runs counts, as many as
begin within forty seconds of training; SHARE of them are done by this call and those before it, whose times FOLDER.json
has. When that is all of them, the ranked lists go to FOLDER/lists.npz and the facts, one line of JSON, to standard
output.
"""

import importlib
import importlib.metadata
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

REPEATS, LEAST_SECONDS = 3, 10.0  # prediction: at least so often, and for so long
TRAININGS, ENOUGH_SECONDS = 12, 40.0  # training: so often, or until it has taken so long


def least_seconds(predict: "Predict") -> tuple[float, Any]:
    """Return the processor time of the quickest of some runs, and what was predicted; other work slows the others."""
    seconds: list[float] = []
    while len(seconds) < REPEATS or sum(seconds) < LEAST_SECONDS:
        began = time.process_time()
        found = predict()
        seconds.append(time.process_time() - began)
    return min(seconds), found


def is_enough(seconds: list[float], share: float) -> bool:
    """Tell whether so many trainings are that share of all."""
    return len(seconds) >= share * TRAININGS or sum(seconds) >= share * ENOUGH_SECONDS


class Data:
    """A data set as matrices and as lists."""

    def __init__(self, path: str) -> None:
        z = np.load(path)
        self.n_labels = int(z["shape"][1])
        n_instances = len(z["indptr"]) - 1
        self.X = scipy.sparse.csr_matrix((z["values"], z["indices"], z["indptr"]), (n_instances, int(z["shape"][0])))
        ones = np.ones(len(z["label_indices"]), np.float32)
        self.Y = scipy.sparse.csr_matrix((ones, z["label_indices"], z["label_indptr"]), (n_instances, self.n_labels))

    def labels(self) -> list[list[int]]:
        return [row.tolist() for row in np.split(self.Y.indices, self.Y.indptr[1:-1])]

    def pairs(self) -> list[list[tuple[int, float]]]:
        X = self.X
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in ends]


Predict = Callable[[], Any]
Peer = Callable[[Data | None, Data, Path, int], tuple[Predict, Callable[[Any], list[list[tuple[int, float]]]]]]


def pecos(train: Data | None, test: Data, folder: Path, k: int) -> Any:
    """PECOS XR-Linear with its defaults: PIFA clusters, beam 10."""
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    if train is not None:
        chain = Indexer.gen(LabelEmbeddingFactory.create(train.Y, train.X, method="pifa"))
        XLinearModel.train(train.X, train.Y, C=chain, threads=1).save(str(folder))
    model = XLinearModel.load(str(folder), is_predict_only=True)

    def lists(scores: Any) -> list[list[tuple[int, float]]]:
        ends = zip(scores.indptr[:-1], scores.indptr[1:], strict=True)
        return [list(zip(scores.indices[a:b].tolist(), scores.data[a:b].tolist(), strict=True)) for a, b in ends]

    return lambda: model.predict(test.X, only_topk=k, beam_size=10, threads=1), lists


def omikuji(train: Data | None, test: Data, folder: Path, k: int, **hyper_parameters: Any) -> Any:
    """Omikuji, three trees, beam 10."""
    import omikuji as library

    if train is not None:
        setting = library.Model.default_hyper_param()
        for name, value in hyper_parameters.items():
            setattr(setting, name, value)
        library.Model.train_on_data(str(text_of(folder)), setting, n_threads=1).save(str(folder / "model"))
    model = library.Model.load(str(folder / "model"))
    library.Model.init_prediction_thread_pool(model, 1)
    pairs = test.pairs()
    return lambda: [model.predict(row, beam_size=10, top_k=k) for row in pairs], lambda found: found


def parabel(train: Data | None, test: Data, folder: Path, k: int) -> Any:
    """Omikuji as Parabel: balanced binary trees, its defaults."""
    return omikuji(train, test, folder, k)


def bonsai(train: Data | None, test: Data, folder: Path, k: int) -> Any:
    """Omikuji as Bonsai: shallow wide trees, as its README says."""
    return omikuji(train, test, folder, k, cluster_balanced=False, collapse_every_n_layers=5)


def napkinxc(train: Data | None, test: Data, folder: Path, k: int) -> Any:
    """napkinXC's PLT with its defaults (balanced 2-means tree)."""
    from napkinxc.models import PLT

    model = PLT(str(folder), tree_type="hierarchicalKmeans", threads=1)
    if train is not None:
        model.fit(train.X, train.labels())
    model.load()
    return lambda: model.predict_proba(test.X, top_k=k), lambda found: found


def one_against_rest(train: Data | None, test: Data, folder: Path, k: int) -> Any:
    """napkinXC's logistic regressions, one a label, with its defaults."""
    from napkinxc.models import OVR

    model = OVR(str(folder), threads=1)
    if train is not None:
        model.fit(train.X, train.labels())
    model.load()
    return lambda: model.predict_proba(test.X, top_k=k), lambda found: found


def rocchio(train: Data | None, test: Data, folder: Path, k: int) -> Any:
    """Nearest centroids: the mean of a label's instances, of unit length."""
    path = folder / "centroids.npz"
    if train is not None:
        sums = (train.Y.T @ train.X).tocsr()
        norms = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
        scipy.sparse.save_npz(path, scipy.sparse.diags(1 / np.maximum(norms, 1e-12)) @ sums)
    centroids = scipy.sparse.load_npz(path).T.tocsr()

    def predict() -> list[list[tuple[int, float]]]:
        found = []
        for first in range(0, test.X.shape[0], 500):
            scores = (test.X[first : first + 500] @ centroids).toarray()
            best = np.argpartition(-scores, k, axis=1)[:, :k]
            found += [
                [(int(label), float(row[label])) for label in labels] for labels, row in zip(best, scores, strict=True)
            ]
        return found

    return predict, lambda found: found


MODULES = {
    "scipy": "scipy.sparse",
    "libpecos": "pecos.xmc.xlinear.model",
    "omikuji": "omikuji",
    "napkinxc": "napkinxc.models",
}
PEERS: dict[str, tuple[str, Peer]] = {
    "Rocchio": ("scipy", rocchio),
    "PECOS XR-Linear": ("libpecos", pecos),
    "omikuji, Parabel-like": ("omikuji", parabel),
    "omikuji, Bonsai-like": ("omikuji", bonsai),
    "napkinXC PLT": ("napkinxc", napkinxc),
    "napkinXC OVR": ("napkinxc", one_against_rest),
}


def peak_bytes() -> int:
    """Return the most memory that this process has had; getrusage would count what the parent had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def text_of(folder: Path) -> Path:
    """Return where the text is that omikuji trains on."""
    return folder.with_name(f"{folder.name}.txt")


def train(peer: Peer, train_path: str, test: Data, folder: Path, k: int, share: float) -> dict[str, Any]:
    """Train that share of times, those of before included; return all processor times, without loading the model."""
    record = folder.with_name(f"{folder.name}.json")
    seconds: list[float] = json.loads(record.read_text())["seconds"] if record.exists() else []
    while not is_enough(seconds, share):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        began = time.process_time()
        peer(Data(train_path), test, folder, k)
        trained = time.process_time()
        peer(None, test, folder, k)
        seconds.append(trained - began - (time.process_time() - trained))
        record.write_text(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes()}))
    trained_before: dict[str, Any] = json.loads(record.read_text())
    return trained_before


def write_xmc(path: Path, data: Data) -> None:
    """Write XMC text."""
    with path.open("w") as stream:
        stream.write(f"{data.X.shape[0]} {data.X.shape[1]} {data.n_labels}\n")
        for labels, row in zip(data.labels(), data.pairs(), strict=True):
            stream.write(",".join(map(str, labels)) + " " + " ".join(f"{f}:{v:.6g}" for f, v in row) + "\n")


def main() -> None:
    """Train unless that has been done, predict a few times, report."""
    name, train_path, test_path, folder, k = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5])
    share = float(sys.argv[6])
    package, peer = PEERS[name]
    importlib.import_module(MODULES[package])
    test = Data(test_path)
    if package == "omikuji" and not text_of(folder).exists():
        write_xmc(text_of(folder), Data(train_path))
    trained = train(peer, train_path, test, folder, k, share)
    if share < 1:
        return
    predict, lists = peer(None, test, folder, k)
    seconds, found = least_seconds(predict)
    labels = np.full((test.X.shape[0], k), -1, np.int32)
    for i, row in enumerate(lists(found)):
        ranked = sorted(row, key=lambda pair: (-pair[1], pair[0]))[:k]
        labels[i, : len(ranked)] = [label for label, _ in ranked]
    np.savez(folder / "lists.npz", labels=labels)
    facts = {
        "name": name,
        "version": f"{package} {importlib.metadata.version(package)}",
        "ms_per_instance": 1e3 * seconds / test.X.shape[0],
        "model_bytes": sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and f.name != "lists.npz"),
        "peak_bytes": trained["peak_bytes"],
        "training_cpu_seconds": min(trained["seconds"]),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    main()
