"""The mathematics: data as loops want them, models, parameters, penalties and the objective. Knows no solver."""
