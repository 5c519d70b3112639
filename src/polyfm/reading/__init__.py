"""Fitted models as polynomials: their monomials, and the strongest of them."""
