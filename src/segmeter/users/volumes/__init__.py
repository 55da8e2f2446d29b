"""Prompters for volumes: what people tell a segmenter slice by slice, or once for the whole.

Each module holds one idea as pure functions of the target (and the current mask); `prompters`
and `refiners` make users of them. Volumes are `(z, y, x)`; a slice is axial, one z. Protocols:
`published` is IntRaBench as its code runs, `corrected` what it should have done; where a function
takes no protocol both are the same.
"""
