"""Prompters for volumes: prompts slice by slice, or for the whole volume.

`initial_prompts` and `refinement_prompts` are pure functions of the target (and the current mask);
`intrabench_prompters` makes users of them. Volumes are `(z, y, x)`; a slice is axial, one z.
`published` is IntRaBench as its code runs, `corrected` what it should have done; where a function
takes no protocol both are the same.
"""
