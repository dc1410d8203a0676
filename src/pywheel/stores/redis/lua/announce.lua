-- ARGV[at]: the worker, and its topics as JSON.
function commands.announce(at)
    local worker, topics = ARGV[at], ARGV[at + 1]
    unhear(worker)
    if topics == '[]' then
        gone(worker)
    else
        call('HSET', P .. ':m', worker, topics)
        call('HSET', P .. ':b', worker, string.format('%.0f 0 -1', now))
        others_look()
    end
    return 0, at + 2
end
