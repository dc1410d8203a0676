-- Returns the topics, and of each the time when it was paused, or ''; and which priorities their jobs had, of those that had some.
return {micros, call('HGETALL', P .. ':t'), call('HGETALL', P .. ':p')}
