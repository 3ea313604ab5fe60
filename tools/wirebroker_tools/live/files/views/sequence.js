// Requests and responses: a lane for each client and broker, an arrow for each request and response.

import { picture } from "../picture.js";

export function open(parts) { return picture({ kind: "sequence", ...parts }); }
