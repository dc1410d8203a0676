-- A worker goes. ARGV: now, worker.
gone(ARGV[2])
return {micros}
