"""References: where each measure comes from, as its card cites it."""

from __future__ import annotations

REFERENCES = {
    "jaccard1912": "P. Jaccard, The distribution of the flora in the alpine zone, "
    "New Phytologist 11, 1912",
    "dice1945": "L. R. Dice, Measures of the amount of ecologic association between species, "
    "Ecology 26, 1945",
    "fasano1987": "G. Fasano, A. Franceschini, A multidimensional version of the "
    "Kolmogorov-Smirnov test, MNRAS 225, 1987",
    "huang1995": "Q. Huang, B. Dom, Quantitative methods of evaluating image segmentation, "
    "ICIP 1995",
    "vandongen2000": "S. van Dongen, Performance criteria for graph clustering and Markov cluster "
    "experiments, CWI report INS-R0012, 2000",
    "martin2001": "D. Martin, C. Fowlkes, D. Tal, J. Malik, A database of human segmented natural "
    "images and its application to evaluating segmentation algorithms, ICCV 2001",
    "martin2003": "D. Martin, An empirical approach to grouping and segmentation, "
    "PhD thesis, University of California, Berkeley, 2003",
    "martin2004": "D. Martin, C. Fowlkes, J. Malik, Learning to detect natural image boundaries "
    "using local brightness, color, and texture cues, PAMI 26, 2004",
    "szekely2004": "G. J. Szekely, M. L. Rizzo, Testing for equal distributions in high dimension, "
    "InterStat 2004",
    "cardoso2005": "J. S. Cardoso, L. Corte-Real, Toward a generic evaluation of image "
    "segmentation, IEEE Transactions on Image Processing 14, 2005",
    "meila2005": "M. Meila, Comparing clusterings: an axiomatic view, ICML 2005",
    "peters2005": "R. J. Peters, A. Iyer, L. Itti, C. Koch, Components of bottom-up gaze "
    "allocation in natural images, Vision Research 45, 2005",
    "unnikrishnan2007": "R. Unnikrishnan, C. Pantofaru, M. Hebert, Toward objective evaluation of "
    "image segmentation algorithms, PAMI 29, 2007",
    "arbelaez2011": "P. Arbelaez, M. Maire, C. Fowlkes, J. Malik, Contour detection and "
    "hierarchical image segmentation, PAMI 33, 2011",
    "pont2013": "J. Pont-Tuset, F. Marques, Measures and meta-measures for the supervised "
    "evaluation of image segmentation, CVPR 2013",
    "pont2015": "J. Pont-Tuset, F. Marques, Supervised evaluation of image segmentation and "
    "object proposal techniques, PAMI 38, 2016",
    "perazzi2016": "F. Perazzi et al., A benchmark dataset and evaluation methodology for video "
    "object segmentation, CVPR 2016",
    "cheng2021": "B. Cheng, R. Girshick, P. Dollar, A. C. Berg, A. Kirillov, Boundary IoU: "
    "improving object-centric image segmentation evaluation, CVPR 2021",
    "nikolov2021": "S. Nikolov et al., Clinically applicable segmentation of head and neck anatomy "
    "for radiotherapy: deep learning algorithm development and validation study, "
    "Journal of Medical Internet Research 23, 2021",
    "rclicks2024": "A. Antonov et al., RClicks: realistic click simulation for benchmarking "
    "interactive segmentation, NeurIPS 2024",
}
