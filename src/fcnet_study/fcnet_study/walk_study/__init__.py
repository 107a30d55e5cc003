"""What architectures learn by PPO on the A1-Walk task: jobs, their results on disk, table and learning curves.

    STUDY/study.json                  the settings of training, with which the study is continued
    STUDY/jobs/JOB/checkpoint.zip     a job, ARCHITECTURE-seedSEED, goes on from here
    STUDY/jobs/JOB/curve.json         its evaluations so far
    STUDY/results.md, .json, .png     what was found by the jobs that are done

A file that is there is complete: a study that was killed goes on after its last evaluation.
"""
