"""Videos: frames and masks in the layouts of DAVIS, SA-V, MOSE, YouTube-VOS, and video files."""
