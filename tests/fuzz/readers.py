"""Every reader of files: good examples of what it reads, and how they are mutated."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from segmeter.api.documentation_cards import kept_answers, make_card, trained_facts
from segmeter.benchmarks.concepts.pairs import Pair, read_phrases
from segmeter.core.errors import BadWeights, NotFound
from segmeter.core.masks import Mask
from segmeter.core.prompts import Box, Click, MaskHint, Scribble, round_from_json, round_to_json
from segmeter.core.videos import FrameMasks
from segmeter.datasets.coco_json import Saco
from segmeter.datasets.data_roots import digest
from segmeter.datasets.label_files import Predictions, labels_at
from segmeter.datasets.recorded_clicks import read_prompts
from segmeter.datasets.volumes.volume_folder import holds_cases, read_member
from segmeter.measures.concepts import Truths
from segmeter.models import weights
from segmeter.models.fetching.transfer import unpack
from segmeter.models.videos.frame_trackers import read_label_png
from segmeter.stats.annotation_time import CostModel
from segmeter.users.videos.frame_users import recorded_strokes

from .mutations import bytes_changed, json_changed, text_changed
from .reader import Reader
from .services import SERVICES

__all__ = ["READERS", "Reader"]

LABELS = np.arange(12 * 16, dtype=np.uint8).reshape(12, 16) // 5
PHOTO = np.stack([LABELS * 5, LABELS[::-1] * 6, 255 - LABELS], axis=2)


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def _challenge_cases() -> list[bytes]:
    volume = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    arrays = {"imgs": volume, "gts": volume % 3, "spacing": np.array([1.0, 1.0, 5.0])}
    return [
        _saved(lambda out: np.savez(out, **arrays)),
        _saved(lambda out: np.savez_compressed(out, **arrays)),
    ]


def _read_challenge_case(path: Path) -> None:
    for name in ("imgs", "gts", "spacing"):
        read_member(path, name)
    holds_cases(path.parent)


def _dicom() -> list[bytes]:
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, "1.2.3.1"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    record = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)  # type: ignore[arg-type]
    record.SOPClassUID, record.SOPInstanceUID = CTImageStorage, "1.2.3.1"
    record.SeriesInstanceUID, record.Modality = "1.2.3", "CT"
    record.Rows, record.Columns = LABELS.shape
    record.PixelSpacing, record.ImagePositionPatient = [0.8, 0.5], [10, 20, 30]
    record.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    record.RescaleSlope, record.RescaleIntercept = 1, -1024
    record.SamplesPerPixel, record.PhotometricInterpretation = 1, "MONOCHROME2"
    record.BitsAllocated, record.BitsStored, record.HighBit = 16, 16, 15
    record.PixelRepresentation, record.PixelData = 0, LABELS.astype("<u2").tobytes()
    return [_saved(lambda out: record.save_as(out, enforce_file_format=True))]


def _prompts() -> list[bytes]:
    rounds = [
        [Click((3, 4))],
        [Click((3, 4)), Box((1, 1), (5, 6)), Scribble(((1, 1), (2, 2)), False)],
        [MaskHint(Mask.of(LABELS > 9))],
        [MaskHint(Mask.box((4, 5, 6), (1, 1, 1), (3, 3, 3)))],
    ]
    return [text.encode() for given in rounds if (text := round_to_json(given))]


def _read_prompts(path: Path) -> None:
    round_from_json(path.read_bytes().decode("utf-8", "surrogateescape"))


def _pairs() -> list[bytes]:
    mask = Mask.of(LABELS > 9)
    truths = [Truths([mask, mask], [mask]), Truths([])]
    return [
        Pair("cat", "positive", truths).to_json().encode(),
        Pair("a", "negative").to_json().encode(),
    ]


def _read_pair(path: Path) -> None:
    Pair.from_json("cat", path.read_bytes().decode("utf-8", "surrogateescape"), LABELS.shape)


def _cards() -> list[bytes]:
    return [make_card("dataset", "mini").to_json().replace("null", '"An answer."').encode()]


def _trained() -> list[bytes]:
    from safetensors.numpy import save

    notes = {"seconds": "60", "device": "CPU", "data": "mini", "annotator": "centre-click"}
    given = {f"segmeter.{name}": text for name, text in notes.items()}
    return [save({"a": np.zeros(1)}, given)]


def _saco() -> list[bytes]:
    image = {"id": 1, "file_name": "a.png", "text_input": "cat", "is_instance_exhaustive": 1}
    thing = {
        "id": 1,
        "image_id": 1,
        "category_id": 1,
        "segmentation": Mask.of(LABELS > 9).to_coco(),
    }
    content = {"images": [image], "annotations": [thing], "categories": [{"id": 1, "name": "x"}]}
    return [json.dumps(content).encode()]


def _saco_image(folder: Path) -> None:
    import cv2

    (folder / "images").mkdir()
    cv2.imwrite(str(folder / "images" / "a.png"), PHOTO)


def _read_saco(path: Path) -> None:
    data = Saco(path.parent)
    for scene in map(data.load, data.scenes()):
        _ = scene.phrases


def _prompt_tables() -> list[bytes]:
    lines = ["scene,target,round,prompt"]
    for number, raw in enumerate(_prompts()[:2], 1):
        quoted = raw.decode().replace('"', '""')
        lines.append(f'a,1,{number},"{quoted}"')
    return ["\n".join(lines).encode()]


def _read_prompt_table(path: Path) -> None:
    read_prompts(path)


def _coco_results() -> list[bytes]:
    mask = Mask.box((9, 12), (1, 2), (5, 6)).to_coco()
    entry = {"image_id": 1, "category_id": 1, "segmentation": mask, "score": 0.5}
    return [json.dumps([entry]).encode(), _annotations()]


def _annotations() -> bytes:
    thing = {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [[1, 1, 5, 1, 5, 5]]}
    image = {"id": 1, "file_name": "a.png", "height": 9, "width": 12}
    truth = {"images": [image], "categories": [{"id": 1, "name": "cat"}], "annotations": [thing]}
    return json.dumps(truth).encode()


def _with_annotations(folder: Path) -> None:
    (folder / "truth.json").write_bytes(_annotations())


def _read_coco_results(path: Path) -> None:
    predictions = Predictions(path)
    predictions.encode(labels_at(path.parent / "truth.json").load("a"))


def _volume_masks() -> list[bytes]:
    boxes = [Mask.box((9, 9, 9), (1, 2, 3), (5, 6, 7)), Mask.empty((9, 9, 9))]
    noise = np.random.default_rng(0).random((9, 9, 9)) > 0.5
    return [mask.encoded().encode() for mask in (*boxes, Mask.of(noise))]


def _read_encoded(path: Path) -> None:
    Mask.decoded(path.read_bytes(), (9, 9, 9))


def _tensors() -> list[bytes]:
    from safetensors.numpy import save

    return [save({"a": LABELS, "b.weight": PHOTO.astype(np.float32)}, {"made": "here"})]


def _checkpoints() -> list[bytes]:
    import torch

    content = {"a": torch.zeros(3, 4), "state_dict": {"b": torch.ones(2)}, "epoch": 3}
    new = _saved(lambda out: torch.save(content, out))
    old = _saved(lambda out: torch.save(content, out, _use_new_zipfile_serialization=False))
    return [new, old]


def _read_weights(path: Path) -> None:
    weights.sizes(path)
    weights.read(path)


def _zip() -> list[bytes]:
    def pack(out: io.BytesIO) -> None:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("top/a.pth", b"x" * 300)
            packed.writestr("top/../b.json", b"{}")

    return [_saved(pack)]


def _tar() -> list[bytes]:
    def pack(out: io.BytesIO, mode: Any) -> None:
        with tarfile.open(fileobj=out, mode=mode) as stream:
            info = tarfile.TarInfo("top/a.pth")
            info.size = 300
            stream.addfile(info, io.BytesIO(b"x" * 300))

    return [_saved(lambda out, m=m: pack(out, m)) for m in ("w", "w:gz", "w:xz", "w:bz2")]


def _read_archive(path: Path) -> None:
    with tempfile.TemporaryDirectory() as out:
        unpack(path, Path(out), (".pth", ".json"))


def _costs() -> list[bytes]:
    return [b"click = 1.5\nbox = 7.0\n", b"other = 0.3\nscribble = 4\n"]


def _study_plans() -> list[bytes]:
    from segmeter import study

    folder = Path(study.__file__).parent / "plans"
    return [path.read_bytes() for path in sorted(folder.rglob("*.toml"))]


def _read_study_plan(path: Path) -> None:
    from segmeter.study.plan import read_plan

    read_plan(path)


def _a_run(folder: Path) -> None:
    """A small run, played once."""
    from segmeter.evaluation import evaluate

    evaluate("disc?radius=5", "drawn", out=folder / "run", rounds=2, limit=2, workers=0)


def _of_run(pattern: str) -> Callable[[], list[bytes]]:
    def make() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            _a_run(Path(folder))
            return [path.read_bytes() for path in sorted(Path(folder).glob(f"run/{pattern}"))[:2]]

    return make


def _a_compacted_run(folder: Path) -> None:
    """A small run whose jobs are in one compacted file."""
    from segmeter.store import RunFolder
    from segmeter.store.compaction import compact

    _a_run(folder)
    run = RunFolder.existing(folder / "run")
    with run.locked():
        compact(run, loose=1)


def _compacted() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        _a_compacted_run(Path(folder))
        return [path.read_bytes() for path in Path(folder).glob("run/jobs/compacted-*.parquet")]


def _in_run(read: Callable[[Path], object]) -> Callable[[Path], None]:
    """Reads the run with one of its files exchanged for the mutated one."""

    def exchanged(path: Path) -> None:
        folder = path.parent / "run"
        same = [f for f in sorted(folder.rglob(f"*{path.suffix}")) if f.suffix == ".parquet"
                or f.name == path.name]  # fmt: skip
        kept = same[0].read_bytes()
        same[0].write_bytes(path.read_bytes())
        try:
            read(folder)
        finally:
            same[0].write_bytes(kept)

    return exchanged


def _summary(folder: Path) -> None:
    from segmeter.store import Run

    run = Run.open(folder)
    run.summary()
    _ = run.provenance


def _rows(folder: Path) -> None:
    from segmeter.store import Run

    Run.open(folder).sql("select * from rows order by all")


def _job_file(path: Path) -> None:
    from segmeter.store.job_files import decode, provenance_of

    table = decode(path.read_bytes())
    provenance_of(table.schema)
    table.to_pylist()


def _provenance(folder: Path) -> None:
    from segmeter.store.folder import RunFolder

    _ = RunFolder.existing(folder).provenance


def _plan(folder: Path) -> None:
    from segmeter.store.folder import RunFolder

    RunFolder.existing(folder).plan.to_json()


def _boxes() -> list[bytes]:
    one = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 5, 6], "score": 0.9}
    return [json.dumps([one, one | {"category_id": 2, "score": 1}]).encode()]


def _read_boxes(path: Path) -> None:
    from segmeter.benchmarks.zeroshot.boxes.work import check_file

    images = [{"id": 1, "height": 12, "width": 16}]
    check_file(str(path), {"images": images, "categories": [{"id": 1}, {"id": 2}]})


def _click_network() -> list[bytes]:
    import torch

    params = {"width": {"type": "int", "value": 18, "specified": True},
              "ocr_width": {"type": "int", "value": 64, "specified": True},
              "head_params": {"value": {"upsample": "x1"}, "specified": True}}  # fmt: skip
    kind = "isegm.model.is_hrnet_model.HRNetModel"
    content = {"state_dict": {"a.weight": torch.zeros(3, 4)},
               "config": {"class": kind, "params": params}}  # fmt: skip
    new = _saved(lambda out: torch.save(content, out))
    old = _saved(lambda out: torch.save(content, out, _use_new_zipfile_serialization=False))
    return [new, old]


def _read_click_network(path: Path) -> None:
    from segmeter.models.clicknets.containers import read

    read(path)


def _field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer: a short number, or bytes with their length."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def _onnx() -> list[bytes]:
    """The smallest network: one node that hands its input on."""
    shape = _field(2, _field(1, _field(1, 1)) + _field(1, _field(1, 4)))
    value = _field(2, _field(1, _field(1, 1) + shape))
    node = _field(1, b"image") + _field(2, b"out") + _field(4, b"Identity")
    ends = _field(11, _field(1, b"image") + value) + _field(12, _field(1, b"out") + value)
    graph = _field(1, node) + _field(2, b"g") + ends
    return [_field(1, 8) + _field(7, graph) + _field(8, _field(1, b"") + _field(2, 13))]


def _read_onnx(path: Path) -> None:
    from segmeter.models.detectors import PicoDet

    class Fuzzed(PicoDet):
        inputs = frozenset({"image"})

    Fuzzed(str(path)).run({"image": np.zeros((1, 4), np.float32)})


def _read_click_model(path: Path) -> None:
    from segmeter.clickability.network import load

    with contextlib.suppress(BadWeights):  # a good file of tensors, if not of this network
        load(path)


def _read_saliency(path: Path) -> None:
    from segmeter.clickability.saliency import _load

    with contextlib.suppress(BadWeights):  # a good file of tensors, if not of this network
        _load(path)


def _sam_configs() -> list[bytes]:
    vision = {"num_hidden_layers": 12, "backbone_config": {"blocks_per_stage": [1, 2, 7, 2]}}
    return [json.dumps({"model_type": "sam2", "vision_config": vision}).encode()]


def _read_sam_config(path: Path) -> None:
    from segmeter.models.sam.model import Kind, _check_config

    with contextlib.suppress(BadWeights):  # what is mutated is a config, if not of this model
        _check_config(path.parent, Kind("sam2-hiera-tiny", "sam2", "", 12, ""))


def _network_plans() -> list[bytes]:
    inner = {"network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
             "arch_kwargs": {"conv_op": "torch.nn.modules.conv.Conv3d"},
             "_kw_requires_import": ["conv_op"]}  # fmt: skip
    return [json.dumps({"configurations": {"3d_fullres": {"architecture": inner}}}).encode()]


def _read_network_plans(path: Path) -> None:
    from segmeter.models.volumes.nninteractive import _check_plans

    _check_plans(path)


def _detection_ground_truths() -> list[bytes]:
    from segmeter.core.detection_ground_truth import Category, DetectionGroundTruth

    return [DetectionGroundTruth(1, (12, 16), (Category(1, "a"),), ()).to_json().encode()]


def _read_detection_ground_truth(path: Path) -> None:
    from segmeter.core.detection_ground_truth import DetectionGroundTruth

    DetectionGroundTruth.from_json(path.read_bytes().decode("utf-8", "surrogateescape"))


def _noted_users() -> list[bytes]:
    return [b'["centre-click", "random-click?seed=3"]']


def _read_noted_users(path: Path) -> None:
    from segmeter.core.plans import Plan
    from segmeter.engine.jobs import lacking_users

    text = path.read_bytes().decode("utf-8", "surrogateescape")
    lacking_users({"users": text}, ["user"], Plan("noc", (), ()))


def _leases() -> list[bytes]:
    return [json.dumps({"until": 2e9, "machine": "here", "process": 7, "token": "a"}).encode()]


def _read_lease(path: Path) -> None:
    from segmeter.store.storage import place_of
    from segmeter.store.write_lock import LEASE, _held, _over

    (path.parent / LEASE).write_bytes(path.read_bytes())
    held = _held(place_of(path.parent))
    if held:
        _over(held)


PLANS, SIGNED = _of_run("plan.json"), _of_run("provenance.json")
JOB_FILES = _of_run("**/*.parquet")


def _model_configs() -> list[bytes]:
    return [json.dumps({"model_type": kind}).encode() for kind in ("sam2", "edgetam")]


def _with_tensors(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(_tensors()[0])


def _read_model_folder(path: Path) -> None:
    from segmeter.models.opening import open_folder

    with contextlib.suppress(BadWeights, NotFound):  # what is mutated is a config, not weights
        open_folder(path.parent)


def _read_onnx_sam(path: Path) -> None:
    from segmeter.models.sam._onnx import recognised

    with contextlib.suppress(BadWeights):  # a graph, if not of SAM
        recognised(path)


def _series_of_dicom(folder: Path) -> None:
    """A series of one more slice than the mutated one, and a mask for each."""
    from pydicom import dcmread

    other = dcmread(io.BytesIO(_dicom_of_a_patient()[0]))
    other.SOPInstanceUID = other.file_meta.MediaStorageSOPInstanceUID = "1.2.3.2"
    other.ImagePositionPatient = [10, 20, 31]
    other.save_as(folder / "b.dcm")


def _dicom_of_a_patient() -> list[bytes]:
    from pydicom import dcmread

    record = dcmread(io.BytesIO(_dicom()[0]))
    record.StudyInstanceUID, record.FrameOfReferenceUID, record.SliceThickness = "1.5", "1.6", 1
    record.PatientID, record.PatientName, record.StudyID, record.InstanceNumber = "7", "x^", "1", 1
    for name in ("StudyDate", "StudyTime", "AccessionNumber", "PatientSex", "PatientBirthDate",
                 "ReferringPhysicianName"):  # fmt: skip
        setattr(record, name, "")
    return [_saved(lambda out: record.save_as(out, enforce_file_format=True))]


def _write_dicom_segmentation(path: Path) -> None:
    from segmeter.datasets.volumes.cases import Case, FileVolume, Options
    from segmeter.datasets.volumes.dicom import walk_dicom
    from segmeter.export.formats import FORMATS, ExportedMask

    for series in walk_dicom(sorted(path.parent.glob("*.dcm")))[0]:
        scene = FileVolume(Case("a", dicom=series), "fuzzed", Options())
        mask = Mask.box(scene.shape, (0, 0, 0), scene.shape)
        with tempfile.TemporaryDirectory() as out:
            masks = [ExportedMask(mask, "model", "a", "all", "all", None, "")]
            FORMATS["dicom-seg"].write(Path(out) / "a.dcm", masks, scene, {"all": 1})


def _click_maps() -> list[bytes]:
    iou = (LABELS / 50).astype(np.float16)
    return [_saved(lambda out: np.savez_compressed(out, iou=iou, low=np.array([2, 3]), stride=4))]


def _read_click_map(path: Path) -> None:
    from segmeter.benchmarks.tetris.work import map_of

    map_of(path.read_bytes())


def _people() -> list[bytes]:
    return [b"[[3.5, 4.0, 0.8, 0.5], [7, 2, 0.1, 0.0]]"]


def _read_people(path: Path) -> None:
    from segmeter.benchmarks.tetris.statistics import people_of

    people_of(path.read_bytes().decode("utf-8", "surrogateescape"))


def _read_groups_column(path: Path) -> None:
    from segmeter.analysis.breakdown import _mapping

    _mapping(path.read_bytes().decode("utf-8", "surrogateescape"))


KEPT_BOXES = Path(__file__).parents[1] / "benchmarks" / "kept_runs" / "boxes.parquet"


def _cells(column: str) -> Callable[[], list[bytes]]:
    """Texts of one column of the kept run of `boxes`."""

    def make() -> list[bytes]:
        table = pq.read_table(KEPT_BOXES, columns=[column])
        return [str(text).encode() for text in table[column].to_pylist() if text][:1]

    return make


def _read_box_rows(column: str) -> Callable[[Path], None]:
    """Sums up the kept run of `boxes` with one text of a column exchanged for the mutated one."""

    def read(path: Path) -> None:
        from tests.benchmarks.kept_results import KeptRun

        run = KeptRun("boxes")
        texts = run._table[column].to_pylist()
        place = next(number for number, text in enumerate(texts) if text)
        texts[place] = path.read_bytes().decode("utf-8", "replace")
        at = run._table.schema.get_field_index(column)
        field = run._table.schema.field(at)
        run._table = run._table.set_column(at, field, [texts])
        run.summary()

    return read


def _scribbles() -> list[bytes]:
    stroke = {"path": [[0.1, 0.2], [0.5, 0.9]], "object_id": 1, "start_time": 0, "end_time": 3}
    return [json.dumps({"scribbles": [[], [stroke, stroke]], "sequence": "a"}).encode()]


def _read_scribbles(path: Path) -> None:
    recorded_strokes(path, (3, 12, 16))


def _label_png() -> list[bytes]:
    from PIL import Image

    return [_saved(lambda out: Image.fromarray(LABELS).save(out, "PNG"))]


def _video_masks() -> list[bytes]:
    mask = Mask.of(LABELS > 9)
    return [FrameMasks.of_frames({0: mask, 2: mask}, (3, 12, 16)).encoded().encode()]


def _read_video_masks(path: Path) -> None:
    masks = FrameMasks.decoded(path.read_bytes(), (3, 12, 16))
    for t in range(3):
        masks.slice(t)


READERS: dict[str, Reader] = {
    "encoded": Reader(_volume_masks, _read_encoded, "a.txt", text_changed),
    "cvpr25-npz": Reader(_challenge_cases, _read_challenge_case, "a.npz"),
    "davis-scribbles": Reader(_scribbles, _read_scribbles, "a.json", json_changed),
    "recorded-masks": Reader(_label_png, lambda path: read_label_png(path, (12, 16)), "a.png"),
    "video-masks": Reader(_video_masks, _read_video_masks, "a.txt", text_changed),
    "prompts": Reader(_prompts, _read_prompts, "a.json", json_changed),
    "coco-results": Reader(
        _coco_results, _read_coco_results, "a.json", json_changed, _with_annotations
    ),
    "prompt-table": Reader(_prompt_tables, _read_prompt_table, "a.csv", text_changed),
    "safetensors": Reader(_tensors, _read_weights, "a.safetensors", needs="torch"),
    "checkpoints": Reader(_checkpoints, _read_weights, "a.pth", needs="torch"),
    "model-folders": Reader(
        _model_configs, _read_model_folder, "config.json", json_changed, _with_tensors
    ),
    "onnx-sam": Reader(_onnx, _read_onnx_sam, "a.onnx", needs="onnxruntime"),
    "dicom-seg": Reader(
        _dicom_of_a_patient,
        _write_dicom_segmentation,
        "a.dcm",
        bytes_changed,
        _series_of_dicom,
        needs="highdicom",
        share=10,
    ),
    "click-maps": Reader(_click_maps, _read_click_map, "a.npz"),
    "people-column": Reader(_people, _read_people, "a.json", json_changed),
    "groups-column": Reader(
        lambda: [b'{"size": "small", "class": "a"}'], _read_groups_column, "a.json", json_changed
    ),
    **{
        f"{column}-column": Reader(
            _cells(column), _read_box_rows(column), "a.txt", changed, share=50
        )
        for column, changed in (
            ("box", json_changed),
            ("mask", text_changed),
            ("ground_truth", json_changed),
        )
    },
    **SERVICES,
    "boxes": Reader(_boxes, _read_boxes, "boxes.json", json_changed),
    "click-networks": Reader(_click_network, _read_click_network, "a.pth", needs="torch"),
    "click-models": Reader(_tensors, _read_click_model, "a.safetensors", needs="torch"),
    "onnx": Reader(_onnx, _read_onnx, "a.onnx", needs="onnxruntime"),
    "click-network-tensors": Reader(_tensors, _read_click_network, "a.safetensors", needs="torch"),
    "saliency": Reader(_tensors, _read_saliency, "a.safetensors", needs="torch", share=10),
    "sam-configs": Reader(_sam_configs, _read_sam_config, "config.json", json_changed),
    "network-plans": Reader(_network_plans, _read_network_plans, "plans.json", json_changed),
    "detection-ground_truths": Reader(
        _detection_ground_truths, _read_detection_ground_truth, "a.json", json_changed
    ),
    "noted-users": Reader(_noted_users, _read_noted_users, "a.json", json_changed),
    "leases": Reader(_leases, _read_lease, "a.json", json_changed),
    "zip": Reader(_zip, _read_archive, "a.zip"),
    "tar": Reader(_tar, _read_archive, "a.tar"),
    "costs": Reader(_costs, CostModel.read, "cost.toml", text_changed),
    "study-plans": Reader(_study_plans, _read_study_plan, "plan.toml", text_changed),
    "plan": Reader(PLANS, _in_run(_plan), "plan.json", json_changed, _a_run),
    "provenance": Reader(SIGNED, _in_run(_provenance), "provenance.json", json_changed, _a_run),
    "phrases": Reader(
        lambda: [b"image,phrase,objects\n0,cat,1 2\n1,the left dog,\n", b"image,phrase\na,b\n"],
        lambda path: read_phrases(str(path), digest([path])),
        "phrases.csv",
        text_changed,
    ),
    "phrase-pairs": Reader(_pairs, _read_pair, "a.json", json_changed),
    "trained-weights": Reader(
        _trained, lambda path: trained_facts(path, 60.0), "a.safetensors", needs="safetensors"
    ),
    "saco": Reader(_saco, _read_saco, "a.json", json_changed, _saco_image),
    "card-answers": Reader(
        _cards, lambda path: kept_answers(path, "dataset"), "card.json", json_changed
    ),
    "compacted-files": Reader(
        _compacted, _in_run(_summary), "a.parquet", bytes_changed, _a_compacted_run, share=50
    ),
    "job-files": Reader(JOB_FILES, _job_file, "a.parquet"),
    # Opening a whole run takes a thousand times as long as reading a file.
    "run-job-files": Reader(
        JOB_FILES, _in_run(_rows), "a.parquet", bytes_changed, _a_run, share=50
    ),
    "plan-summed": Reader(PLANS, _in_run(_summary), "plan.json", json_changed, _a_run, share=50),
    "job-files-summed": Reader(
        JOB_FILES, _in_run(_summary), "a.parquet", bytes_changed, _a_run, share=50
    ),
}
