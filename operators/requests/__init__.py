"""S4: outliers among requests, clusters of them, and what distinguishes each cluster from normal requests.

Fournier, Ezzati-Jivan, Aloise, Dagenais: Automatic Cause Detection of Performance Problems in Web Applications, 2019.
"""
