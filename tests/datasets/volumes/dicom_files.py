"""Small DICOM series, structure sets and segmentations."""

from __future__ import annotations

import numpy as np


def series(folder, values, axis=(1, 0, 0, 0, 1, 0), leave_out=(), uid="1.2.3", **more):
    """A CT series of slices along z, 2 mm apart; pixels 0.5 x 0.8 mm; `more` are other fields."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    folder.mkdir(parents=True, exist_ok=True)
    for k, plane in enumerate(values):
        if k in leave_out:
            continue
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = CTImageStorage
        meta.MediaStorageSOPInstanceUID = f"1.2.3.{k + 1}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        record = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        record.SOPClassUID, record.SOPInstanceUID = CTImageStorage, f"1.2.3.{k + 1}"
        record.SeriesInstanceUID, record.Modality = uid, "CT"
        record.Rows, record.Columns = plane.shape
        record.PixelSpacing = [0.8, 0.5]
        record.ImageOrientationPatient = list(axis)
        record.ImagePositionPatient = [10, 20, 30 + 2 * k]
        record.RescaleSlope, record.RescaleIntercept = 1, -1024
        record.SamplesPerPixel, record.PhotometricInterpretation = 1, "MONOCHROME2"
        record.BitsAllocated, record.BitsStored, record.HighBit = 16, 16, 15
        record.PixelRepresentation = 0
        record.PixelData = (plane + 1024).astype("<u2").tobytes()
        for word, value in more.items():
            if word != "suffix":
                setattr(record, word, value)
        name = f"{(k * 7) % 11:02}{more.get('suffix', '.dcm')}"
        record.save_as(folder / name, enforce_file_format=True)


def structures(folder, name, contours, refers=None):
    """An RTSTRUCT with contours, each of pixels `(column, row)` and its slice."""
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.sequence import Sequence
    from pydicom.uid import ExplicitVRLittleEndian, RTStructureSetStorage

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = RTStructureSetStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3.99"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    record = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    record.SOPClassUID, record.SOPInstanceUID = RTStructureSetStorage, "1.2.3.99"
    record.SeriesInstanceUID = "1.9"
    region, drawn = Dataset(), Dataset()
    region.ROINumber, region.ROIName = 1, name
    drawn.ReferencedROINumber = 1
    drawn.ContourSequence = Sequence([_contour(corners, k) for corners, k in contours])
    record.StructureSetROISequence = Sequence([region])
    record.ROIContourSequence = Sequence([drawn])
    if refers:
        frame, study, one = Dataset(), Dataset(), Dataset()
        one.SeriesInstanceUID = refers
        study.RTReferencedSeriesSequence = Sequence([one])
        frame.RTReferencedStudySequence = Sequence([study])
        record.ReferencedFrameOfReferenceSequence = Sequence([frame])
    record.save_as(folder / "structures.dcm", enforce_file_format=True)


def _contour(corners, k):
    from pydicom.dataset import Dataset

    contour = Dataset()
    points = [[10 + 0.5 * c, 20 + 0.8 * r, 30 + 2 * k] for c, r in corners]
    contour.ContourData = [f"{v:.3f}" for point in points for v in point]
    contour.ContourGeometricType, contour.NumberOfContourPoints = "CLOSED_PLANAR", len(points)
    return contour


def segmentation(folder, bits):
    """A DICOM-SEG of one segment, slices in reverse order."""
    from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
    from pydicom.sequence import Sequence
    from pydicom.uid import ExplicitVRLittleEndian, SegmentationStorage

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SegmentationStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3.98"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    record = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    record.SOPClassUID, record.SOPInstanceUID = SegmentationStorage, "1.2.3.98"
    record.SeriesInstanceUID, record.Modality = "1.8", "SEG"
    record.Rows, record.Columns, record.NumberOfFrames = *bits.shape[1:], len(bits)
    record.SamplesPerPixel, record.PhotometricInterpretation = 1, "MONOCHROME2"
    record.BitsAllocated, record.BitsStored, record.HighBit = 1, 1, 0
    record.PixelRepresentation = 0
    packed = np.packbits(bits[::-1].ravel(), bitorder="little").tobytes()
    record.PixelData = packed + b"\0" * (len(packed) % 2)
    segment = Dataset()
    segment.SegmentNumber, segment.SegmentLabel = 1, "liver"
    record.SegmentSequence = Sequence([segment])
    frames = []
    for k in reversed(range(len(bits))):
        frame, place, which = Dataset(), Dataset(), Dataset()
        place.ImagePositionPatient = [10, 20, 30 + 2 * k]
        which.ReferencedSegmentNumber = 1
        frame.PlanePositionSequence = Sequence([place])
        frame.SegmentIdentificationSequence = Sequence([which])
        frames.append(frame)
    record.PerFrameFunctionalGroupsSequence = Sequence(frames)
    record.save_as(folder / "seg.dcm", enforce_file_format=True)
