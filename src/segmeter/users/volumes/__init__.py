"""Prompters for volumes: what people tell a segmenter slice by slice, or once for the whole.

Each module holds one idea as pure functions of the target (and the current mask); `prompters`
and `refiners` make users of them. Volumes are `(z, y, x)`; a slice is axial, one z. Readings:
`published` is IntRaBench as its code runs, `sound` what it should have done; where a function
takes no reading both are the same.
"""
