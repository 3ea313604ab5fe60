module wirebroker/bench/loadgen

go 1.21
