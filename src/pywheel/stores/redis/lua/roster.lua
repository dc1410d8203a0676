-- Who is there.
return {micros, first_lease(), call('GET', P .. ':v') or '', now, call('HGETALL', P .. ':b'), call('HGETALL', P .. ':m')}
