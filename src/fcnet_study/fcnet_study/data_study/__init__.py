"""What policies learn from how much data: jobs of training and of evaluation, their results on disk, tables and plots.

    STUDY/study.json              the settings, with which the study is continued
    STUDY/data/SHARE/             the part of the data that jobs of this share train on; data/validation: what none does
    STUDY/models/JOB.safetensors  what a job trained
    STUDY/train/JOB.json          how it came about, and its error on the validation data
    STUDY/walk/JOB.json           its scores in every scenario, as `fcnet evaluate --json` writes them
    STUDY/latency.json            how long a step of each variant takes
    STUDY/results.md, results.png what was found

A file that is there is complete: a study that was killed goes on after its last job.
"""
