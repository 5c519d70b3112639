"""Estimators and models of Spark in its own layout: metadata as JSON, and beside it polyfm's model file."""

import json
import os
import tempfile
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from polyfm.modelfile import load_model, save_model
from polyfm.spark.params import as_stored

BYTES_OF_A_ROW = 2**26


def _is_stored(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


class Writer(MLWriter):
    """`write()` of an estimator or a model. No pickle: it can be read from strangers."""

    def __init__(self, instance: Any, model: Any = None):
        super().__init__()
        self.instance, self.model = instance, model

    def saveImpl(self, path: str) -> None:
        given = {param.name: as_stored(value) for param, value in self.instance._paramMap.items()}
        unstored = [name for name, value in given.items() if not _is_stored(value)]
        if unstored and self.model is None:
            raise ValueError(
                f"{unstored[0]}={given[unstored[0]]!r} is an object, of which JSON holds nothing. Save the estimator "
                "with one that has a name, and set it anew after loading."
            )
        given = {name: value for name, value in given.items() if name not in unstored}
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sparkSession, paramMap=given)
        if self.model is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "model.polyfm")
            save_model(self.model, file)
            with open(file, "rb") as stream:
                data = stream.read()
        rows = [(i, data[i : i + BYTES_OF_A_ROW]) for i in range(0, len(data), BYTES_OF_A_ROW)]
        frame = self.sparkSession.createDataFrame(rows, "start long, content binary")
        frame.coalesce(1).write.parquet(os.path.join(path, "model"))


class Reader(MLReader):
    def __init__(self, cls: Any):
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> Any:
        name = f"{self.cls.__module__}.{self.cls.__name__}"
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession, name)
        instance = self.cls()
        instance._resetUid(metadata["uid"])
        if self.cls._is_model:
            rows = self.sparkSession.read.parquet(os.path.join(path, "model")).orderBy("start").collect()
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "model.polyfm")
                with open(file, "wb") as stream:
                    stream.writelines(row.content for row in rows)
                instance._local = load_model(file)
        DefaultParamsReader.getAndSetParams(instance, metadata)
        return instance
