"""Volumes from files: NIfTI, NRRD and DICOM, in the layouts that radiology groups use."""
