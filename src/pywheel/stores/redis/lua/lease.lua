-- When the first lease may be over.
return {micros, first_lease()}
