import { render } from "preact";

import { App } from "./app.tsx";
import "./state/copying.ts";
import "./style/base.css";
import "./style/parts.css";
import "./style/rollout.css";
import "./style/pages.css";

render(<App />, document.getElementById("app")!);
