package com.fasterxml.jackson.datatype.jsr310;

import com.fasterxml.jackson.databind.module.SimpleModule;

/** In the place of jackson-datatype-jsr310, which is no package of Debian's: times stay text here. */
public class JavaTimeModule extends SimpleModule {}
