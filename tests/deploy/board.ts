// What a dashboard file of deploy/grafana may hold: the types of Grafana's published schema, panel by panel, as JSON.
import type { AnnotationQuery, Dashboard, DataQuery, Panel, VariableModel } from "@grafana/schema";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type {
  FieldConfig as TimeSeriesFieldConfig,
  Options as TimeSeriesOptions,
} from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/** A type as JSON has it: enums of strings become the strings themselves. */
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

/** Grafana completes options that a file leaves out; an option that is given must be right. */
type Some<T> = T extends object ? { [K in keyof T]?: Some<T[K]> } : T;

/** Of the Prometheus plugin, which the schema package does not describe. */
type Query = DataQuery & { expr: string; legendFormat?: string; interval?: string; instant?: boolean; range?: boolean };
type Annotation = Omit<AnnotationQuery, "target"> & { target: Query; titleFormat?: string; textFormat?: string };

/** `definition`: the text of the query in Grafana's own list of variables. */
type Variable = VariableModel & { definition?: string };

type Shown<Type extends string, Options, Custom> = Omit<Panel<Some<Options>, Some<Custom>>, "type" | "options" | "targets"> & {
  type: Type;
  options: Some<Options>;
  targets: Query[];
};

export type Board = Plain<
  Omit<Dashboard, "panels" | "templating" | "annotations"> & {
    panels: Array<Shown<"timeseries", TimeSeriesOptions, TimeSeriesFieldConfig> | Shown<"stat", StatOptions, {}>>;
    templating: { list: Variable[] };
    annotations: { list: Annotation[] };
  }
>;
