module wirebrokertest

go 1.24
