-- Returns the topics, and of each the time when it was paused, or ''.
return {micros, call('HGETALL', P .. ':t')}
