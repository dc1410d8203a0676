-- Returns how many members of a set lie before a place, or with `too` up to it: of those with the same score the ids decide. Ids are
-- compared as numbers: text is compared by the server's locale. And returns how many commands that took.
local function rank_of(key, score, b, too)
    local low, id, looks = call('ZCOUNT', key, '-inf', '(' .. score), number(b), 2
    local high = low + call('ZCOUNT', key, score, score)
    while low < high do
        local middle = math.floor((low + high) / 2)
        local there = number(call('ZRANGE', key, middle, middle)[1])
        if there < id or (too and there == id) then
            low = middle + 1
        else
            high = middle
        end
        looks = looks + 1
    end
    return low, looks
end
