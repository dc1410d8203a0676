package pywheel.client;

import com.fasterxml.jackson.databind.module.SimpleModule;

/** In the place of the generated one, which needs the real JavaTimeModule. */
public class RFC3339JavaTimeModule extends SimpleModule {}
