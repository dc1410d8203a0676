-- The server's names and flags of the functions. No name equals one of another version of pywheel.
local function register(flag, functions)
    for place = 1, #functions do
        local name = functions[place]
        local function callback(keys, args)
            run = run or make()
            return run(name, keys, args)
        end
        redis.register_function({function_name = 'pywheel_' .. name .. '_' .. VERSION, flags = {flag}, callback = callback})
    end
end
register('no-writes', {'job', 'ids', 'page', 'forecast', 'ended', 'notes', 'states', 'histories', 'counts', 'lapsed', 'claims', 'next_dues',
    'first_due', 'verify'})
-- These work without free memory: a store can be opened, claimed jobs settled, and finished ones purged.
register('allow-oom', {'open', 'beat', 'hear', 'leave', 'roster', 'lease', 'settle', 'mend'})
register(nil, {'apply', 'put', 'nonce'})
