"""From data to fitted parameters: problems and solvers in, results out. Knows no scikit-learn."""
