-- ARGV: now, a reference.
local b = find(ARGV[2])
local reply = {}
if b then
    put_job(reply, b, call('HGET', of_job(b), b), state_of(b))
end
return {micros, reply}
