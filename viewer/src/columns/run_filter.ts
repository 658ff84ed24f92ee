/** The search in a list of runs: every word must occur in a run's name, model, environment, sampling, state or tags. */

interface Searched {
  title: string;
  path: string;
  state: string;
  models: string[];
  environments: string[];
  sampling: Record<string, unknown>;
  tags: string[];
}

export function findRuns<Run extends Searched>(runs: Run[], text: string): Run[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? runs.filter((run) => isFound(run, words)) : runs;
}

/** The sampling parameters of a run as a line, such as "temperature 0.7, top_p 0.9". */
export function samplingOf(sampling: Record<string, unknown>): string {
  return Object.entries(sampling).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`).join(", ");
}

function isFound(run: Searched, words: string[]): boolean {
  const texts = [run.title, run.path, run.state, ...run.models, ...run.environments, ...run.tags, samplingOf(run.sampling)];
  const whole = texts.join("\n").toLowerCase();
  return words.every((word) => whole.includes(word));
}
