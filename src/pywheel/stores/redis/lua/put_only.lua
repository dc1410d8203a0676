-- The commonest step: jobs without keys are put, and nothing else is done.
if latest == REQUEST then
    return {micros, latest, remembered()}
end
local first = put_plain(4)
tell_all()
remember(first)
return {micros, latest, first}
