module vale

go 1.20

require github.com/errata-ai/vale/v2 v2.30.0
