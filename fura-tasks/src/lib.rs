//! Graders, task files and environments whose outcomes a program checks.
